"""What is learned: options and a gate, in memory, in a file and in words."""
