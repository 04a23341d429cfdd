"""A run over HTTP, for robots and for browsers. Needs the extra `serve`."""
