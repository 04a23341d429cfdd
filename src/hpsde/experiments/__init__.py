"""Experiments: methods x tasks x seeds, their statistics, figures and report (`hpsde reproduce`)."""
