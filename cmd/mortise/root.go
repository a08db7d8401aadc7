package main

import "github.com/spf13/cobra"

const rootLong = `mortise runs commands under distributed locks in Redis or Valkey, and shows and
releases such locks. They are compatible with those of Redisson: Java and Go
programs and this command exclude each other.

The Redis URL is that of --redis, else MORTISE_REDIS_URL, else in the file that
MORTISE_REDIS_URL_FILE names, else REDIS_URL, else redis://127.0.0.1:6379. The password
is in the file of --password-file, else in the URL, else in the file that
MORTISE_PASSWORD_FILE names, else in REDISCLI_AUTH.

With --prefix TEXT, else MORTISE_PREFIX, every NAME is that of the lock TEXT+NAME in
Redis, and ls lists only such locks, without the prefix: tenants and environments
share one Redis. Redisson's NameMapper does the same.`

// rootCommand returns the command mortise with all its subcommands.
func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "mortise",
		Short:         "Run commands under distributed locks, show and release locks",
		Long:          rootLong,
		Version:       buildVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misplaced(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	a.redisFlags(root)
	a.prefixFlag(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if err := negative(cmd, err); err != nil {
			return err
		}
		return usageError(unknownFlag(cmd, err, "See "+cmd.CommandPath()+" --help for the flags. A NAME that begins with - comes after --."), "%w", flagError(err))
	})
	root.AddCommand(
		runCommand(a),
		electCommand(a),
		semCommand(a),
		latchCommand(a),
		showCommand(a),
		listCommand(a),
		whoCommand(a),
		historyCommand(a),
		watchCommand(a),
		topCommand(a),
		serveCommand(a),
		doctorCommand(a),
		aclCommand(a),
		unlockCommand(a),
		tokensCommand(a),
		benchCommand(a),
		demoCommand(a),
		serverCommand(a),
		versionCommand(a),
	)
	root.SetHelpCommand(helpCommand(a))
	root.InitDefaultHelpCmd()
	a.completionCommand(root)
	tidied(root)
	wrapHelp(root)
	return root
}
