"""Code sets and environments on this host: made once, found by what is in them, bounded. (WRK-50 to WRK-53)"""
