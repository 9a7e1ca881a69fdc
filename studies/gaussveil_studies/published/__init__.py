"""The papers' mechanisms exactly as printed, where they are NOT private. Nothing here ever yields a certificate."""
