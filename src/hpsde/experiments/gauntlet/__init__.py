"""The gauntlet: many random tasks whose solutions are known, each learned over several seeds, and the targets."""
