"""Knows who has joined, and who has gone."""
