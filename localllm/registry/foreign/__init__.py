"""Finds and describes models stored by other programs. Changes nothing and adopts nothing."""
