module pointer-follower

go 1.24
