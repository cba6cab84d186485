"""What every other room knows: graphs, plans, targets, quantization parameters. A leaf."""
