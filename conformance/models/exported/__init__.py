"""Models as today's exporters write them: small networks with seeded weights, for

    python -m conformance.models.exported FOLDER [--only TEXT]

in an environment that has an exporter (`torch.txt`, `classical.txt` and others beside this file),
and for `python -m conformance.exported FOLDER` in one that has the plugin. `make exported` does all
of it."""
