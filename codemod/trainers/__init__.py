"""Trainers as data, and what projects tell them."""
