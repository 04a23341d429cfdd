"""The methods that the paper's is compared with, by the same ask and tell."""
