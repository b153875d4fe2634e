"""Machines by need: bought for jobs that wait for room, given back when nothing is held on them."""
