"""Games of deadlines, their feasibility, and the probability of missed deadlines."""
