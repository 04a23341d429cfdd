"""The commands of `hpsde`, one file each: a frozen dataclass is its options, its help and what it does."""
