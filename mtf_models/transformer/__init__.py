"""Encoder and decoder stacks, and models made of them, written in named dimensions."""
