package main

import "github.com/spf13/cobra"

func unlockCommand(*app) *cobra.Command { return &cobra.Command{Use: "unlock"} }
