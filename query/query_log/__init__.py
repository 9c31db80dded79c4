"""What people asked and clicked, and the judgements made of it."""
