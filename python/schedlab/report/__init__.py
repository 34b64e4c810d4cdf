"""Results for people: tables of tasks, figures, and one self-contained HTML file."""
