"""The weighted mixture of Gaussians: its posterior, the search for it, and Laplacian eigenmaps."""
