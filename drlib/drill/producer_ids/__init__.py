"""Producer IDs that two clusters gave to different producers: found before a redirected producer writes with one."""
