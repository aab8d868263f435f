"""What entitlements owe each other, and their memory credits: read from where they are stored."""
