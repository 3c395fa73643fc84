"""What a program computes, holds and communicates, found out without running it."""
