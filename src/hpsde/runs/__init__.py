"""Durable runs: rollouts that are stored, resumed, and evaluated in this process, in others, or on a cluster."""
