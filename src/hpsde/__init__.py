"""Hierarchical policy search by return-weighted density estimation."""
