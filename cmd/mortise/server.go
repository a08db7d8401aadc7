package main

import "github.com/spf13/cobra"

func serverCommand(*app) *cobra.Command { return &cobra.Command{Use: "server"} }
