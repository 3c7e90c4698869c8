"""Models that other programs have put on this disk: finding and describing them. Changes nothing, adopts nothing."""
