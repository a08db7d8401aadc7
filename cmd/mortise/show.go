package main

import "github.com/spf13/cobra"

func showCommand(*app) *cobra.Command { return &cobra.Command{Use: "show"} }
