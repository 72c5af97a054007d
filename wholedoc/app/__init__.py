"""What commands do with a trained model: translate lines, explain, export, and the demo."""
