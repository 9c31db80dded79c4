"""Where vectors live: one contract, two stores."""
