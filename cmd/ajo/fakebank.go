package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// newFakebankCmd is `ajo fakebank`: the simulated upstream bank as a process of its own.
func newFakebankCmd() *cobra.Command {
	var addr string
	var opt fakebank.Options
	var fee, vat, duty sumFlag
	cmd := &cobra.Command{
		Use:   "fakebank",
		Short: "Run the simulated upstream bank, with a page to pay from and faults on demand",
		Long: `Run the simulated upstream bank: the provider's wire, the NIN service, and a page where a
person can pay and switch faults on.

Its credentials come from the same environment as the service's:
  AJO_PROVIDER_ACCOUNT_ID        default ` + fakebank.DefaultAccountID + `
  AJO_PROVIDER_CLIENT_ID         default ` + fakebank.DefaultClientID + `
  AJO_PROVIDER_CLIENT_SECRET     default ` + fakebank.DefaultClientSecret + `
  AJO_PROVIDER_WEBHOOK_SECRET    default ` + fakebank.DefaultWebhookSecret + `
  AJO_PROVIDER_SIGNATURE_HEADER  default ` + fakebank.DefaultSignatureHeader + `
  AJO_PROVIDER_TIMESTAMP_HEADER  default ` + fakebank.DefaultTimestampHeader + `
  AJO_IDENTITY_APP_ID, AJO_IDENTITY_KEY  default: any`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opt.Log = app.CommandLog(cmd.ErrOrStderr(), os.Getenv, slog.LevelInfo)
			opt.AccountID = os.Getenv("AJO_PROVIDER_ACCOUNT_ID")
			opt.ClientID = os.Getenv("AJO_PROVIDER_CLIENT_ID")
			opt.ClientSecret = os.Getenv("AJO_PROVIDER_CLIENT_SECRET")
			opt.WebhookSecret = os.Getenv("AJO_PROVIDER_WEBHOOK_SECRET")
			opt.SignatureHeader = os.Getenv("AJO_PROVIDER_SIGNATURE_HEADER")
			opt.TimestampHeader = os.Getenv("AJO_PROVIDER_TIMESTAMP_HEADER")
			opt.IdentityAppID = os.Getenv("AJO_IDENTITY_APP_ID")
			opt.IdentityKey = os.Getenv("AJO_IDENTITY_KEY")
			opt.PayoutFee, opt.PayoutVAT, opt.PayoutStampDuty = money.Sum(fee.sum), money.Sum(vat.sum), money.Sum(duty.sum)
			return runFakebank(cmd, addr, opt)
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", "127.0.0.1:8090", "address to listen on; it has no login, so keep it on loopback")
	f.StringVar(&opt.WebhookURL, "webhook-url", "http://127.0.0.1:8080/webhooks/provider", "where events are sent; empty: nowhere")
	f.StringVar(&opt.StateFile, "state", "", "file that keeps accounts, transactions and payouts across runs; empty: none")
	f.Uint64Var(&opt.Seed, "seed", 0, "reproduces account numbers and the draws of faults with a percentage; 0: none")
	f.DurationVar(&opt.TokenTTL, "token-ttl", 30*time.Minute, "how long an access token lasts")
	f.DurationSliceVar(&opt.RetryDelays, "retry-delays", fakebank.DefaultRetryDelays, "waits before a webhook's further attempts")
	f.DurationVar(&opt.PayoutDelay, "payout-delay", 3*time.Second, "how long a payout is under way; 0: paid when submitted")
	f.IntVar(&opt.RecipientRate, "recipient-rate", fakebank.DefaultRecipientRate, "payouts a minute that one account may get; 0: any number")
	addFlag(cmd, &fee, "payout-fee", "taken from the wallet for each payout, beside its amount; default 0.00")
	addFlag(cmd, &vat, "payout-vat", "VAT on that fee; default 0.00")
	addFlag(cmd, &duty, "payout-stamp-duty", "stamp duty of each payout; default 0.00")
	return cmd
}

func runFakebank(cmd *cobra.Command, addr string, opt fakebank.Options) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bank := fakebank.New(opt)
	url, err := bank.Start(addr)
	if err != nil {
		_ = bank.Close() // it never ran: there is nothing to keep
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Fake bank (and NIN service): %s\nControl page:                %s/\nWebhooks go to:              %s\n",
		url, url, cmp.Or(opt.WebhookURL, "nowhere"))
	<-ctx.Done()
	return bank.Close()
}
