"""The HTTP service: dialects that tools already speak, one queue to each model behind them."""
