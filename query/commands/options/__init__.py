"""Options of commands, and the help that shows them."""
