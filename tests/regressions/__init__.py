"""Defects that were found once, each by the case that showed it."""
