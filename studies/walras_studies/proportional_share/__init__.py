"""The proportional-share market: what its paper draws and proves."""
