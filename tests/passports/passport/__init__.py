"""Passports: where a recipe or a transform applies, refuses, or applies and loses something."""
