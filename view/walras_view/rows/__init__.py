"""Pure: users, jobs and nodes, each as the row of a table."""
