// Mortisevet finds misuses of package mortise, for go vet:
//
//	go vet -vettool=$(which mortisevet) ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/mortise-go/mortise/analyzer"
)

func main() { unitchecker.Main(analyzer.Analyzer) }
