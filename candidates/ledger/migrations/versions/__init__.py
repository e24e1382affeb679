"""One module a revision. What one did is never changed once it is released: databases have it behind them."""
