"""Running a job: the transition table and what each input does to it."""
