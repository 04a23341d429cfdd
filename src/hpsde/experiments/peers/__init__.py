"""hpsde beside other ways to find several solutions, with as many evaluations for each."""
