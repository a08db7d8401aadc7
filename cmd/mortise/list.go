package main

import "github.com/spf13/cobra"

func listCommand(*app) *cobra.Command { return &cobra.Command{Use: "ls"} }
