module github.com/mortise-go/mortise

go 1.26.0
