"""What is kept between processes: plans with their weights, in files of the user."""
