"""How things are shown to people: words, times, colours and what all HTML pages share."""
