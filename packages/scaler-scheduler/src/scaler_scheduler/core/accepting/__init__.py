"""Lets batches and single tasks in, or refuses them."""
