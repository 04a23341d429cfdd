"""What everybody needs and what knows nobody: shapes, padding, precision, checks, files, distributions."""
