"""Two million tasks through one real cluster: what it holds afterwards is what it held before."""
