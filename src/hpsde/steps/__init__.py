"""The steps of Algorithm 1, as pure functions."""
