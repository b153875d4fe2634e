"""When jobs start: the one estimate that plan, pools, explain, show, deadlines and ETAs answer from."""
