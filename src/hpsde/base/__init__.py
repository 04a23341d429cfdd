"""What all other folders use, and what uses none of them: shapes, padding, precision, checks, files."""
