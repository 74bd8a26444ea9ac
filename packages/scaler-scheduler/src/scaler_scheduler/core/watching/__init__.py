"""Answers what people ask: pages, explanations, graphs, dumps, samples."""
